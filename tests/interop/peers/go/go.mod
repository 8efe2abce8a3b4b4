module interop

go 1.21

require github.com/coder/acp-go-sdk v0.13.0
