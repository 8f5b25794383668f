module libtenon/vectors

go 1.24

require libtenon/tenon v0.0.0

replace libtenon/tenon => ../../../../wrappers/go
