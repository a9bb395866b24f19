"""Packages of the wheel; everything else is in pyproject.toml, which cannot add a folder to the packages it finds."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["contrastive*"]),
        "contrastive.configs",
        "hydra_plugins.contrastive_launcher",
        "hydra_plugins.contrastive_sweeper",
    ],
    package_dir={"contrastive.configs": "configs"},  # configs/ at the root of a checkout, inside the package in a wheel
    package_data={
        "contrastive": [
            "py.typed",
            "__init__.pyi",
            "experiment/keywords.pyi",
            "export/cards/*",
            "tracker/curves.yaml",
            "report/templates/*",
            "weights/*/*",
        ],
        "contrastive.configs": ["**/*.yaml"],
    },
)
