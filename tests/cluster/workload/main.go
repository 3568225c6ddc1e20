// Command workload is what runs in the containers of the test cluster. Called as "pause" it only
// holds a Pod's namespaces; under any other name it is a web server that answers with the Pod's
// name on port SERVE_PORT (80 if unset). Both end at once on SIGTERM.
package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
	go reap()
	if filepath.Base(os.Args[0]) != "pause" {
		go serve()
	}
	<-end
}

// reap collects orphans: process 1 of a container inherits them, and the pause container those of
// a whole Pod that shares its process namespace.
func reap() {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for range children {
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
		}
	}
}

func serve() {
	port := os.Getenv("SERVE_PORT")
	if port == "" {
		port = "80"
	}
	name, _ := os.Hostname()
	answer := func(response http.ResponseWriter, _ *http.Request) { fmt.Fprintln(response, name) }
	// A port already taken (two servers in one Pod) leaves a container that runs and doesn't serve.
	if err := http.ListenAndServe(":"+port, http.HandlerFunc(answer)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
