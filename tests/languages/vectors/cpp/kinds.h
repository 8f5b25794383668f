// Declarations that the files of the runner in C++ share.
#pragma once

#include <functional>
#include <string>
#include <tenon/tenon.hpp>

#include "case.h"

// run_vectors.cc
// Runs `call`, which must end as the case expects. Returns whether the call succeeded.
// expect: the prefix of the keys of the expectation.
bool outcome(const Case& test, const std::function<void()>& call,
             const std::string& expect = "expect.");
tenon::Dtype dtype_of(const Case& test, const std::string& key);
std::vector<std::int64_t> numbers_of(tenon::Dtype dtype);
std::vector<std::int64_t> numbers_of(std::span<const std::int64_t> numbers);
// The keys dtype, sizes, strides, offset and flags have the prefix.
tenon::Tensor make_tensor(const Case& test, const std::string& prefix,
                          const tenon::Storage& storage);

// composites.cc
void run_composite(const Case& test);

// objects.cc
void run_object(const Case& test);

// arenas.cc
void run_arena(const Case& test);
void run_lease(const Case& test);

// cuda.cc
// Returns why the case cannot run here, or nothing.
std::optional<std::string> missing(const Case& test);
void run_cuda_counter(const Case& test);
void run_cuda_open(const Case& test);
void run_cuda_share(const Case& test);
void run_cuda_event(const Case& test);
void run_cuda_module(const Case& test);
void run_cuda_arena(const Case& test);
