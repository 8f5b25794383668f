# The test of the site: tools/docs builds the site and checks its links, and a headless Chromium
# looks at it. Pages link to sources, and folders list their files, so any file of the repository is
# an input.
tenon_add_test(docs.site LABEL docs TIMEOUT 1800 INPUTS .
  COMMAND "${TENON_PYTHON}" -B "${CMAKE_CURRENT_SOURCE_DIR}/site_test.py")
tenon_add_test(docs.site_links LABEL docs
  COMMAND "${TENON_PYTHON}" -B "${CMAKE_CURRENT_SOURCE_DIR}/site_links_test.py")
