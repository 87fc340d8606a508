module millrace.invalid/clients/e2e/go

go 1.19

require github.com/millrace/millrace/clients/go/v2 v2.0.0

replace github.com/millrace/millrace/clients/go/v2 => ../../go
