#include <llmc/layernorm.cuh>
