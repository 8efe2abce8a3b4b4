"""Complete the package's metadata at build time: project links, and a README whose links work on a package index.

The address of the repository stands here once. While it is the placeholder, `make package` builds and checks everything
but refuses to call the result ready to publish (`scripts/check_package.py`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PLACEHOLDER = "https://repository.invalid/duologue"
REPOSITORY = PLACEHOLDER
"""Where the source lives. Set this, and only this, before the first release."""

BRANCH = "main"

_RELATIVE_LINK = re.compile(r"(?P<before>\]\(|src=\")(?!https?://|#|mailto:)(?P<path>[^)\"\s]+)")


def absolute_links(readme: str) -> str:
    """Return the README with every relative link and image made absolute."""

    def replace(match: re.Match[str]) -> str:
        path = match["path"]
        kind = "raw" if path.endswith((".svg", ".png")) else "blob"
        return f"{match['before']}{REPOSITORY}/{kind}/{BRANCH}/{path}"

    return _RELATIVE_LINK.sub(replace, readme)


class PackageMetadata(MetadataHookInterface):
    """Fill in `readme` and `urls`, which pyproject.toml declares dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the two fields to the metadata of the build."""
        readme = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute_links(readme)}
        metadata["urls"] = {
            "Repository": REPOSITORY,
            "Documentation": f"{REPOSITORY}/tree/{BRANCH}/docs",
            "Issues": f"{REPOSITORY}/issues",
            "Changelog": f"{REPOSITORY}/blob/{BRANCH}/CHANGELOG.md",
        }
