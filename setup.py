"""Build step of the wheel; the metadata are in setup.cfg."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithRecipes(build_py):
    """Copy the recipes of training/ to `attention_zoo/recipes` of a wheel.

    An editable install uses those in training/.
    """

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for recipe in Path("training").glob("*/*.*.yaml"):
            target = Path(self.build_lib, "attention_zoo", "recipes", recipe.parent.name)
            target.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(recipe, target / recipe.name)


setup(cmdclass={"build_py": BuildWithRecipes})
