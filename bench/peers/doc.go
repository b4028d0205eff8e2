// Command peers measures.
package main
