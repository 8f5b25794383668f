// Runs the cases of every GoogleTest program of this repository.
//
// One program holds the cases of a whole folder, so that the library is linked once for them. CTest
// still runs the cases of each source file in a process of their own: `--file=limits_test.cc`
// leaves out what stands in other files.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace support {

inline constexpr int kUsage = 2;
inline constexpr int kSkipped = 77;  // CTest prints it as skipped

// The last part of a path.
inline std::string_view leaf_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// A GoogleTest filter that names every case of the source file.
inline std::string filter_for(std::string_view file) {
  std::string filter;
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const ::testing::TestInfo& test = *suite.GetTestInfo(j);
      if (leaf_of(test.file()) == file)
        filter += std::string(filter.empty() ? "" : ":") + suite.name() + "." + test.name();
    }
  }
  return filter;
}

// Takes --file=NAME out of the arguments, if it is there.
inline std::string take_file(int* argc, char** argv) {
  constexpr std::string_view kOption = "--file=";
  std::string file;
  int kept = 0;
  for (int i = 0; i < *argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with(kOption)) {
      file = word.substr(kOption.size());
    } else {
      argv[kept++] = argv[i];
    }
  }
  *argc = kept;
  argv[kept] = nullptr;
  return file;
}

// Returns 77 if every case was skipped. Returns an error if `--file` names a file without cases,
// because the file was probably renamed.
inline int run_tests(int argc, char** argv) {
  const std::string file = take_file(&argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  if (!file.empty()) {
    const std::string filter = filter_for(file);
    if (filter.empty()) {
      std::fprintf(stderr, "%s has no case of a file %s\n", argv[0], file.c_str());
      return kUsage;
    }
    GTEST_FLAG_SET(filter, filter);
  }
  const int status = RUN_ALL_TESTS();
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  return status == 0 && all.test_to_run_count() > 0 &&
                 all.skipped_test_count() == all.test_to_run_count()
             ? kSkipped
             : status;
}

}  // namespace support
