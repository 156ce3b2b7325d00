-- Whether a Python frame is of no program of a user: of PyTorch or Triton, of Python's library, built in, or a module instead of a line.
CREATE OR REPLACE MACRO _is_library_frame(name) AS
    regexp_matches(
        name,
        '^<|^nn\.Module: |(^|/)(torch|triton|torchvision/models|functorch)/|(^|/)lib/python[0-9.]+/[a-z_]+\.py|^(contextlib|threading|runpy|functools|inspect|os|abc|copy|typing|weakref|collections/__init__|importlib/[a-z_/]+|concurrent/[a-z_/]+|asyncio/[a-z_]+|multiprocessing/[a-z_]+|selectors|queue|random|enum|re)\.py'
    );
