"""libkernel_bench_c.so: any launcher of llmc by name, on the caller's arrays. See c_interface.h."""

import ctypes
import weakref


class _Extent(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_int64)]


class _Array(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p)]


class Error(Exception):
    """What the library says went wrong."""


def _pairs(kind, values):
    return (kind * len(values))(*(kind(name.encode(), value) for name, value in values.items()))


class Library:
    def __init__(self, path):
        c = self._c = ctypes.CDLL(str(path))
        c.kernel_bench_list.restype = c.kernel_bench_error.restype = ctypes.c_char_p
        c.kernel_bench_open.restype = ctypes.c_void_p
        c.kernel_bench_open.argtypes = [
            ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p,
            ctypes.POINTER(_Extent), ctypes.c_int, ctypes.POINTER(_Array), ctypes.c_int]
        c.kernel_bench_launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
        c.kernel_bench_close.argtypes = [ctypes.c_void_p]
        c.kernel_bench_close.restype = None

    def listing(self):
        return self._c.kernel_bench_list().decode()

    def error(self):
        return Error(self._c.kernel_bench_error().decode())

    def call(self, operation, shape, arrays, variant="automatic", precision=None, block_size=0):
        """A launcher of these extents and arrays: tensors, or None where it takes null."""
        return Call(self, operation, shape, arrays, variant, precision, block_size)


class Call:
    """A launcher with its workspace and its plans. Its tensors live as long as it does."""

    def __init__(self, library, operation, shape, arrays, variant, precision, block_size):
        self._library, self._arrays = library, arrays
        pointers = {name: None if array is None else array.data_ptr()
                    for name, array in arrays.items()}
        self._handle = library._c.kernel_bench_open(
            operation.encode(), variant.encode(), block_size,
            None if precision is None else precision.encode(),
            _pairs(_Extent, shape), len(shape), _pairs(_Array, pointers), len(pointers))
        if self._handle is None:
            raise library.error()
        weakref.finalize(self, library._c.kernel_bench_close, self._handle)

    def launch(self, stream, tune=False):
        """On the stream, a number; with `tune` the fastest way to do its products is found first."""
        if self._library._c.kernel_bench_launch(self._handle, stream, tune) != 0:
            raise self._library.error()
