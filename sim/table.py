"""What every table of a scenario is."""

from pydantic import BaseModel, ConfigDict


class Table(BaseModel):
    """Any table: its values fixed once read, its types taken as they are, no key beyond those declared."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)
