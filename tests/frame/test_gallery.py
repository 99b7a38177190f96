"""The ready scenarios are found by name, from a checkout and from an installed wheel."""

from pathlib import Path

import pytest

from sim import gallery
from sim.errors import ScenarioError


@pytest.fixture
def ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of two ready scenarios, in place of the real one; the current folder is another, empty one."""
    folder = tmp_path / "ready"
    folder.mkdir()
    for name in ("mixed.toml", "azure-conv.toml", "notes.txt"):
        (folder / name).touch()
    monkeypatch.setattr(gallery, "_PLACES", (tmp_path / "nowhere", folder))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    return folder


def test_names_are_those_of_the_toml_files_in_order(ready: Path) -> None:
    assert gallery.names() == ["azure-conv", "mixed"]


def test_the_package_is_searched_before_the_folder_beside_it() -> None:
    package, beside = gallery._PLACES
    assert (package.name, package.parent.name) == ("scenarios", "sim")
    assert (beside.name, beside.parent) == ("scenarios", package.parent.parent)


def test_a_name_leads_to_its_file(ready: Path) -> None:
    assert gallery.path("mixed") == gallery.find("mixed") == ready / "mixed.toml"


@pytest.mark.parametrize("name", ["mxied", "../ready/mixed", "mixed.toml", "", "notes", "a\x1b[31m"])
def test_what_is_no_name_is_refused_in_one_line_that_says_what_there_is(ready: Path, name: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        gallery.path(name)
    message = str(refused.value)
    assert "ready: azure-conv, mixed" in message
    assert message.isprintable()


def test_the_nearest_name_is_offered(ready: Path) -> None:
    with pytest.raises(ScenarioError, match=r'called "mxied"; .*; did you mean \'mixed\'\?$'):
        gallery.find("mxied")


@pytest.mark.parametrize("source", ["mixed.toml", "sub/mixed", "/nowhere/x.toml", Path("mixed")])
def test_a_path_stays_a_path(ready: Path, source: str | Path) -> None:
    assert gallery.find(source) == Path(source)


def test_a_file_with_a_ready_scenarios_name_does_not_hide_it(ready: Path) -> None:
    Path("mixed").touch()
    assert gallery.find("mixed") == ready / "mixed.toml"


def test_a_file_whose_name_is_a_bare_word_is_found(ready: Path) -> None:
    Path("mine").touch()
    assert gallery.find("mine") == Path("mine")


def test_an_installation_without_its_scenarios_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "_PLACES", (tmp_path / "nowhere",))
    assert gallery.names() == []
    with pytest.raises(ScenarioError, match="this installation lacks its scenarios"):
        gallery.path("mixed")
