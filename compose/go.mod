module tools

go 1.26.3

require github.com/docker/compose/v5 v5.5.1 // indirect
