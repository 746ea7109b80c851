"""A person's folder of configurations as Hydra reads it: each file bounded before Hydra loads it."""

from __future__ import annotations

from pathlib import Path

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.plugins.config_source import ConfigResult

from sweep.bounded import read_text
from sweep.bounded_yaml import parse_yaml
from sweep.catalog.yaml_file import MAX_BYTES
from sweep.errors import UserError

MOST_REFERENCES = 16
"""`${...}` of one file. References to references multiply as aliases do; 16 at most to 3^5 copies of one value."""


class BoundedFolder(FileConfigSource):
    """Hydra's reader of a folder for files of unknown origin."""

    @staticmethod
    def scheme() -> str:
        return "bounded"

    def load_config(self, config_path: str) -> ConfigResult:
        """One file. Raises UserError where it is too large, not YAML, or repeats itself too much."""
        file = Path(self.path) / self._normalize_file_name(config_path)
        if file.is_file():
            text = read_text(file, MAX_BYTES)
            parse_yaml(text, str(file))
            if text.count("${") > MOST_REFERENCES:
                raise UserError(f"holds more than {MOST_REFERENCES} references ${{...}}", file=str(file))
        return super().load_config(config_path)
