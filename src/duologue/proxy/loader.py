"""Load the proxy that a command line names: one of ours, a Python file, or a module."""

from __future__ import annotations

import contextlib
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from duologue.errors import StartError
from duologue.proxy.proxy import Proxy
from duologue.suggestion import suggestion


def load_proxy(source: str) -> Proxy:
    """Return the proxy of `FILE.py`, `FILE.py:NAME` or `MODULE:NAME`; what the module prints goes to stderr.

    Raises:
        StartError: There is no such file or module, it failed, or it has no proxy of that name.
    """
    location, _, name = source.partition(":")
    with contextlib.redirect_stdout(sys.stderr):  # stdout is for the client
        module = _load(location)
    proxies = {key: value for key, value in vars(module).items() if isinstance(value, Proxy)}
    wanted = name or ("proxy" if "proxy" in proxies or len(proxies) != 1 else next(iter(proxies)))
    if wanted not in proxies:
        named = f"it has {', '.join(sorted(proxies))}" if proxies else "it has none: write `proxy = Proxy(…)`"
        raise StartError(f"{location} has no proxy {wanted!r}{suggestion(wanted, proxies)}; {named}")
    return proxies[wanted]


def _load(location: str) -> ModuleType:
    is_file = location.endswith(".py")
    path = Path(location).absolute()
    if is_file and not path.is_file():
        raise StartError(f"{location}: no such file; expected policy, logger, FILE.py or MODULE:NAME")
    # As `python FILE` and `python -m MODULE` do.
    sys.path.insert(0, str(path.parent if is_file else Path.cwd()))
    try:
        if not is_file:
            return import_module(location)
        spec = spec_from_file_location(path.stem, path)
        assert spec is not None, "a file that ends in .py has a loader"
        assert spec.loader is not None, "a file that ends in .py has a loader"
        module = sys.modules[path.stem] = module_from_spec(spec)
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        hint = "" if is_file else "; expected policy, logger, FILE.py or MODULE:NAME"
        raise StartError(f"{location}: {error}{hint}") from error
    except Exception as error:
        raise StartError(f"{location}: {type(error).__name__}: {error}") from error
    return module
