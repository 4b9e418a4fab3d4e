/// @file
/// The registry for other languages: any launcher of llmc, by name, on the caller's arrays. These
/// are the functions of libkernel_bench_c; compare_pytorch.py calls them.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const char* name;
  int64_t value;
} kernel_bench_extent;

typedef struct {
  const char* name;
  void* data;
} kernel_bench_array;

/// A launcher with all its arguments but the stream, and with its workspace and plans.
typedef struct kernel_bench_call kernel_bench_call;

/// What `kernel_bench list` prints.
const char* kernel_bench_list(void);

/// What went wrong in the last function that failed in this thread.
const char* kernel_bench_error(void);

/// Makes a call ready. The registry chooses the scalars and counters; gradients of parameters are
/// overwritten.
///
/// @param operation  as `kernel_bench list` names it
/// @param variant    likewise
/// @param block_size 0 for the variant's default
/// @param precision  null where the operation takes none
/// @param extents    of the shape; an extent that is not named has `kernel_bench`'s default
/// @param arrays     all of its arrays, on the current device, by the names of the launcher's
///                   arguments; null where the launcher takes null
///
/// Returns null if a name is unknown or an array is missing.
kernel_bench_call* kernel_bench_open(const char* operation, const char* variant, int block_size,
                                     const char* precision, const kernel_bench_extent* extents,
                                     int extent_count, const kernel_bench_array* arrays,
                                     int array_count);

/// Launches it on the stream, a cudaStream_t. With `tune` not 0 it first times the ways to compute
/// its products and keeps the fastest for later launches. Only the first launch allocates memory.
/// Returns 0, or 1 if the launcher throws.
int kernel_bench_launch(kernel_bench_call* call, void* stream, int tune);

/// The stream must be done with the call. `call` may be null.
void kernel_bench_close(kernel_bench_call* call);

#ifdef __cplusplus
}
#endif
