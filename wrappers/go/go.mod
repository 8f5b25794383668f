module libtenon/tenon

go 1.24
