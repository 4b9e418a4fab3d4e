#pragma once

#include <llmc/types.hpp>

void normalise(float* out, const float* inp, llmc::row_shape shape);
