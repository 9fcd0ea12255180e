"""The rules that the code keeps: light to import, one direction of imports, one door for noise."""

import ast
import subprocess
import sys
from pathlib import Path

import ladp

HOME = Path(ladp.__file__).parent
# A room imports only from rooms above it (and from itself).
ROOMS = [
    {"version", "errors"}, {"keys", "params"}, {"columns"}, {"models"}, {"data"}, {"privacy"}, {"ledger"}, {"mechanisms", "metrics", "server"}, {"training"},
    {"federation"}, {"recipe"}, {"folder"}, {"accounts"}, {"experiment"}, {"report"}, {"attacks"}, {"audit"}, {"tables"}, {"studies"}, {"cli"},
]  # fmt: skip
FLOOR = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}


def modules():
    for path in sorted(HOME.rglob("*.py")):
        parts = path.relative_to(HOME).with_suffix("").parts
        yield path, parts[0], ast.parse(path.read_text())


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "ladp":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("ladp."):
            yield node.module.split(".")[1]


def test_a_room_imports_only_from_rooms_above_it():
    wrong = [
        f"{path.relative_to(HOME)} imports {name}"
        for path, room, tree in modules() if room != "__init__"
        for name in imported(tree) if name in FLOOR and name != room and FLOOR[name] >= FLOOR[room]
    ]  # fmt: skip
    assert not wrong


def test_importing_the_package_does_not_import_torch():
    program = "import sys, ladp; assert 'torch' not in sys.modules and 'numpy' not in sys.modules; ladp.models; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_library_runs_without_what_only_the_command_line_needs():
    program = "import sys; sys.modules.update(typer=None, rich=None); import ladp; ladp.experiment, ladp.report, ladp.training, ladp.recipe"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_public_name_is_there():
    assert all(getattr(ladp, name) is not None for name in ladp.__all__) and len(set(ladp.__all__)) == len(ladp.__all__)


def test_noise_is_drawn_in_two_places_only_from_seeds_and_from_entropy():
    """Attacks draw for themselves, and let nothing out."""
    drawing = {"randn", "randn_like", "normal", "normal_", "urandom"}
    places = {path.relative_to(HOME).as_posix() for path, room, tree in modules() if room != "attacks" for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in drawing}
    assert places == {"columns/__init__.py", "columns/cuda.py", "privacy/entropy.py"}


def test_nobody_seeds_a_global_generator_and_only_the_command_line_prints():
    for path, room, tree in modules():
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        assert not [c for c in calls if isinstance(c, ast.Attribute) and c.attr == "manual_seed" and path.name != "keys.py"], path
        assert room == "cli" or not [c for c in calls if isinstance(c, ast.Name) and c.id == "print"], path


def test_every_module_says_what_it_is_for():
    assert not [path for path, _, tree in modules() if path.stat().st_size and not ast.get_docstring(tree)]
