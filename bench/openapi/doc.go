// Package openapi shows that a client which a public generator makes of the served OpenAPI document works: it is generated,
// compiled and run against a follower of three nodes. It is a module of its own, so that the product depends on no generator.
//
// The generator is oapi-codegen. It was taken because it reads OpenAPI 3.1 and its output is plain Go; nothing of what it
// generates is kept.
package openapi
