"""JSON Schema of the scenario: as pydantic makes it, with decimals as the plain numbers that they are in TOML."""

from decimal import Decimal
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema


class JsonSchema(GenerateJsonSchema):
    """Decimals are numbers, their bounds and defaults too; what may be left out is not null."""

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        bounds = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum"}
        return {"type": "number"} | {word: _number(schema[key]) for key, word in bounds.items() if key in schema}  # type: ignore[literal-required]

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def encode_default(self, dft: Any) -> Any:
        return _number(dft) if isinstance(dft, Decimal) else super().encode_default(dft)

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """No ``default`` for what has none of its own: null is not a value in TOML."""
        made = super().default_schema(schema)
        return {key: value for key, value in made.items() if key != "default" or value is not None}


def _number(value: Any) -> Any:
    if not isinstance(value, Decimal):
        return value
    return int(value) if value == value.to_integral_value() else float(value)
