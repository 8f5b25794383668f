# Doxygen reads only comments with a mark. A C++ header begins with a plain comment that says what
# the file is for. This script turns that comment into the description of the file.
1,/^[^\/]/s|^//\( \|$\)|///\1|
1s|^/// |/// @file\n/// |
