module github.com/millrace/millrace/clients/go/v2

go 1.19
