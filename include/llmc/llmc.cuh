/// @file
/// Every layer of llmc.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <llmc/adamw.cuh>
#include <llmc/attention.cuh>
#include <llmc/causal_product.cuh>
#include <llmc/causal_softmax.cuh>
#include <llmc/classifier.cuh>
#include <llmc/crossentropy.cuh>
#include <llmc/encoder.cuh>
#include <llmc/error.hpp>
#include <llmc/gelu.cuh>
#include <llmc/global_norm.cuh>
#include <llmc/layernorm.cuh>
#include <llmc/loss_sum.cuh>
#include <llmc/matmul.cuh>
#include <llmc/matmul_bias.cuh>
#include <llmc/matmul_context.hpp>
#include <llmc/matmul_gelu.cuh>
#include <llmc/matmul_split.cuh>
#include <llmc/permute.cuh>
#include <llmc/residual.cuh>
#include <llmc/residual_layernorm.cuh>
#include <llmc/softmax.cuh>
#include <llmc/split.cuh>
#include <llmc/split_matrix.hpp>
#include <llmc/types.hpp>
#include <llmc/version.hpp>
