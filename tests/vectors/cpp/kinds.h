// What the files of the runner in C++ know of each other.
#pragma once

#include <functional>

#include "case.h"

// run_vectors.cc: runs `call`, which is to end as the case expects; whether it succeeded, as it should.
bool outcome(const Case& test, const std::function<void()>& call);

// arenas.cc
void run_arena(const Case& test);
void run_lease(const Case& test);

// cuda.cc
// Why the case cannot be run here.
std::optional<std::string> missing(const Case& test);
void run_cuda_counter(const Case& test);
void run_cuda_open(const Case& test);
void run_cuda_share(const Case& test);
void run_cuda_event(const Case& test);
void run_cuda_module(const Case& test);
void run_cuda_arena(const Case& test);
