// The peers' client libraries are this module's alone: the product does not depend on them.
module github.com/quorate/quorate/bench/peers

go 1.26.0

replace github.com/quorate/quorate => ../..

require github.com/quorate/quorate v0.0.0

require (
	github.com/klauspost/compress v1.20.0 // indirect
	github.com/nats-io/nats.go v1.55.0 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/rabbitmq/amqp091-go v1.16.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)
