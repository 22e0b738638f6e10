// Command timeoutd serves a timeout centre.
package main

func main() {}
