"""Sensitive paths: files that other programs act on, and files that contain secrets.

Both are recognized by their names, at any depth and in any case. The lists err on the side of asking too often.
"""

from __future__ import annotations

import re
import unicodedata
from fnmatch import translate
from functools import cache

PROTECTED = """
# Version control runs hooks, and its settings name programs to run; a nested repository has them too. Any directory
# with a file called HEAD may be one.
.git/ HEAD .gitmodules .gitconfig .gitattributes .hg/ .hgrc .svn/ .subversion/ .jj/ .bzr/
.githooks/ .git-hooks/ .hooks/ .husky/ .huskyrc* .pre-commit-config.yaml .pre-commit-hooks.yaml .overcommit.yml
lefthook.* .lefthook.* lefthook-local.* .lefthook-local.* .lefthook/ .lintstagedrc*
# Services run what these say, with the secrets of the project.
.github/ .gitlab/ .gitlab-ci.yml .gitea/ .forgejo/ .circleci/ .buildkite/ .woodpecker/ .woodpecker.* .drone.*
.travis.yml .appveyor.yml appveyor.yml azure-pipelines.* .azure-pipelines/ bitbucket-pipelines.yml jenkinsfile
cloudbuild.yaml
# Editors and debuggers run tasks and trust what the settings of a project say.
.vscode/ .vs/ .idea/ .zed/ .fleet/ .nova/ .helix/ .lapce/ .theia/ .vim/ .nvim/ .emacs.d/
.devcontainer/ .devcontainer.json .exrc .vimrc _vimrc .gvimrc .lvimrc .vimrc.local .local.vimrc .ideavimrc .nvimrc
.nvim.lua .nvim.fnl .emacs .dir-locals*.el *.code-workspace *.sublime-project .kateproject .project .settings/
.gitpod.yml .gitpod/ .idx/ .replit .ona/ .gdbinit .gdbearlyinit .lldbinit* .pdbrc* .pythonrc* .irbrc .pryrc .rprofile
.renviron .ghci .psqlrc .sqliterc .octaverc
# Python runs these whenever it starts.
sitecustomize.py usercustomize.py *.pth
# Agents and MCP servers: their instructions, permissions, commands and start files.
agents.md agents.*.md agent.md claude.md claude.*.md gemini.md qwen.md warp.md crush.md skill.md
.cursorrules .windsurfrules .clinerules/ .roorules* .roomodes .rules .goosehints .augment-guidelines .continuerules
.agents/ .agent/ .claude/ .cursor/ .gemini/ .codex/ .continue/ .goose/ .kiro/ .qwen/ .opencode/ .windsurf/ .duologue/
.codeium/ .cline/ .roo/ .kilocode/ .augment/ .amazonq/ .junie/ .trae/ .amp/ .factory/ .crush/ .openhands/
.copilot/ .aider* .mcp.json mcp.json .mcp/ .claude.json opencode.json opencode.jsonc crush.json .crush.json
# What runs when a user merely enters a directory, opens a terminal or logs in.
.envrc .direnvrc mise.toml .mise.toml mise.*.toml .mise.*.toml .mise/ .tool-versions .asdfrc
.profile .inputrc .login .xprofile .xinitrc .xsession .xsessionrc .pam_environment .forward .screenrc .tmux.conf
.bashrc .bash_profile .bash_login .bash_logout .bash_aliases .zshrc .zshenv .zprofile .zlogin .zlogout .oh-my-zsh/
.kshrc .cshrc .tcshrc .config/ .local/bin/ .local/lib/ .local/share/ library/launchagents/ .ssh/ .gnupg/
# Where packages and images come from, under whose name, and which programs are asked for it.
.npmrc .yarnrc .yarnrc.yml .yarn/ .pnpmfile.* .pypirc .netrc pip.conf pip.ini .pip/ .cargo/ .gemrc .bundle/ .condarc
.m2/ .mvn/ .gradle/ .bazelrc .docker/ .kube/ .aws/ .terraformrc .curlrc .wgetrc
"""

CONFIDENTIAL = """
.env .env.* *.env .envrc .netrc _netrc .pgpass .my.cnf .npmrc .yarnrc.yml .pypirc .htpasswd
.git-credentials .dockercfg .docker/ .vault-token .aws/ .azure/ .kube/ .ssh/ .gnupg/ .password-store/
.config/gcloud/ .config/gh/ .config/hub .secrets/ secrets/
id_rsa* id_dsa* id_ecdsa* id_ed25519* *.pem *.key *.ppk *.p12 *.pfx *.jks *.keystore *.kdbx *.keychain*
*.asc *.age *.tfstate *.tfvars credentials credentials.* *credentials*.json secret secret.* secrets.*
*_secret*.json *-secret*.json token token.* tokens.* *_token *_token.* *-token.* service-account*.json
cookies.sqlite key4.db logins.json
"""
TEMPLATES = re.compile(r"\.env\.(example|sample|template|dist)")
"""Templates without secrets, made to be shared."""


@cache  # when it is first needed: both lists take 10 ms
def _names(listed: str) -> re.Pattern[str]:
    """Compile a list; a name that ends with a slash is a directory with everything in it."""
    patterns = [name.casefold() for line in listed.splitlines() if not line.startswith("#") for name in line.split()]
    folders = [pattern.removesuffix("/") for pattern in patterns if pattern.endswith("/")]
    files = [pattern for pattern in patterns if not pattern.endswith("/")]
    # Instead of a directory there may be a file with its location, as `.git` is in a worktree.
    return re.compile("|".join(translate(name) for name in [*files, *folders, *(f"{name}/*" for name in folders)]))


def casefold_path(path: str) -> str:
    """Normalize a path as the most tolerant file system compares it: case, invisible characters, composition."""
    visible = [each for each in unicodedata.normalize("NFKC", path) if unicodedata.category(each) != "Cf"]
    return "".join(visible).casefold()


def is_protected(path: str) -> bool:
    """Return True if other programs act on the content of this file."""
    return _is_named(path, PROTECTED)


def is_secret_path(path: str) -> bool:
    """Return True if the name of this file suggests keys, tokens or passwords."""
    return _is_named(path, CONFIDENTIAL) and not TEMPLATES.fullmatch(casefold_path(path).rpartition("/")[2])


def _is_named(path: str, listed: str) -> bool:
    names = _names(listed)
    parts = casefold_path(path).strip("/").split("/")
    return any(names.fullmatch("/".join(parts[start:])) for start in range(len(parts)))
