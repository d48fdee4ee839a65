"""`odradek recipe`: recipes that need no Spark do not ask for it."""

import subprocess
import sys

import pytest

from odradek.cli.main import main
from odradek.recipes import RECIPES, WITHOUT_SPARK, module_of


def test_a_recipe_has_one_kind() -> None:
    assert not set(RECIPES) & set(WITHOUT_SPARK)


def test_recipes_without_spark_import_none_of_it() -> None:
    names = ", ".join(module_of(name) for name in WITHOUT_SPARK)
    program = f"import sys, {names}; print('pyspark' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False False\n"


def test_a_recipe_without_a_picture_refuses_png(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipe", "audit", "--png", "audit.png"]) == 2
    assert "audit draws no picture; leave --png out" in capsys.readouterr().err
