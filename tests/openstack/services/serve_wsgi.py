"""Serve a WSGI application: serve_wsgi.py MODULE:FACTORY HOST PORT.

Waitress's own command won't do: the applications read sys.argv themselves.
"""

import importlib
import sys

import waitress

spec, host, port = sys.argv[1:]
del sys.argv[1:]
module, factory = spec.split(":")
application = getattr(importlib.import_module(module), factory)()
waitress.serve(application, host=host, port=int(port), threads=4)
