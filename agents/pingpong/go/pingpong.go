// ping and pong in Go, with net/http: what docs/pingpong.md says of their answers.
//
//	pingpong pong [--bind ADDRESS] [--port PORT]
//	pingpong ping --pong HOST:PORT [--retries N] [--timeout S] [--bind ADDRESS] [--port PORT]
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	longest = 1 << 30
	part    = 1 << 16
	answer  = `{"length": %d, "code": %d, "retries": %d, "duration": %.6f}`
)

var middle = bytes.Repeat([]byte("o"), part)

// paths answers requests for a number of bytes below its paths, and refuses all others.
func paths(expression string, serve func(w http.ResponseWriter, r *http.Request, path string, length int64)) http.Handler {
	known := regexp.MustCompile(`^(?:(?i:http)://[^/]*)?/(` + expression + `)/([0-9]+)(?:\?.*)?$`)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			say(w, http.StatusMethodNotAllowed, "text/plain", "only GET and HEAD are answered\n")
			return
		}
		found := known.FindStringSubmatch(r.RequestURI)
		if found == nil {
			say(w, http.StatusNotFound, "text/plain", "pong has /pong/N, ping has /ping/N and /mping/N\n")
			return
		}
		length, err := strconv.ParseInt(found[2], 10, 64)
		if err != nil || length > longest {
			say(w, http.StatusBadRequest, "text/plain", "the longest answer has 1073741824 bytes\n")
			return
		}
		serve(w, r, found[1], length)
	})
}

func say(w http.ResponseWriter, status int, contentType, text string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	io.WriteString(w, text)
}

// pong sends p, then o's, then ng.
func pong(w http.ResponseWriter, r *http.Request, _ string, length int64) {
	if length < 4 {
		length = 4
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	if r.Method == http.MethodHead {
		return
	}
	w.Write([]byte("p"))
	for left := length - 3; left > 0; left -= part {
		piece := middle
		if left < part {
			piece = middle[:left]
		}
		if _, err := w.Write(piece); err != nil {
			return
		}
	}
	w.Write([]byte("ng"))
}

// A relay asks pong for what a client of ping asks of it.
type relay struct {
	client  http.Client
	url     string
	retries int
	timeout time.Duration
}

func newRelay(pong string, retries int, timeout time.Duration) *relay {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.DisableCompression = true
	transport.MaxIdleConns = 0
	transport.MaxIdleConnsPerHost = 4096
	client := http.Client{Transport: transport, Timeout: timeout}
	return &relay{client, "http://" + pong + "/pong/", retries, timeout}
}

// serve asks again and again, with growing pauses, and answers with what came of it.
func (p *relay) serve(w http.ResponseWriter, r *http.Request, path string, length int64) {
	arrival := time.Now()
	pause := time.Millisecond
	for retries := 0; ; retries++ {
		var err error
		code, received := http.StatusServiceUnavailable, int64(0)
		if path == "ping" {
			code, err = p.pass(w, r.Method, length)
		} else {
			code, received, err = p.measure(length)
		}
		if err != nil && retries < p.retries && time.Since(arrival) < p.timeout {
			time.Sleep(pause)
			if pause < 256*time.Millisecond {
				pause *= 2
			}
			continue
		}
		if path == "ping" && err != nil {
			say(w, http.StatusServiceUnavailable, "text/plain", "pong can't be reached\n")
		}
		if path == "ping" {
			return
		}
		status := http.StatusOK
		if err != nil {
			code, received = http.StatusServiceUnavailable, 0
		}
		if code == http.StatusServiceUnavailable {
			status = code
		}
		duration := float64(time.Since(arrival).Nanoseconds()) / 1e6
		say(w, status, "application/json", fmt.Sprintf(answer, received, code, retries, duration))
		return
	}
}

// measure returns the status and the length of pong's answer.
func (p *relay) measure(length int64) (int, int64, error) {
	response, err := p.ask(http.MethodGet, length)
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	received, err := io.Copy(io.Discard, response.Body)
	return response.StatusCode, received, err
}

// pass hands pong's answer on as it comes.
func (p *relay) pass(w http.ResponseWriter, method string, length int64) (int, error) {
	response, err := p.ask(method, length)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	w.Header().Set("Content-Type", "text/plain")
	if response.ContentLength >= 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(response.ContentLength, 10))
	}
	w.WriteHeader(response.StatusCode)
	if _, err := io.Copy(w, response.Body); err != nil {
		panic(http.ErrAbortHandler) // what the client has got can't be taken back
	}
	return response.StatusCode, nil
}

func (p *relay) ask(method string, length int64) (*http.Response, error) {
	request, err := http.NewRequest(method, p.url+strconv.FormatInt(length, 10), nil)
	if err != nil {
		return nil, err
	}
	return p.client.Do(request)
}

func run(arguments []string) error {
	if len(arguments) == 0 {
		return errors.New("usage: pingpong ping|pong [OPTIONS]")
	}
	flags := flag.NewFlagSet(arguments[0], flag.ExitOnError)
	bind := flags.String("bind", "", "`ADDRESS` to listen on")
	port := flags.Int("port", 8080, "`PORT` to listen on")
	upstream := flags.String("pong", "", "`HOST:PORT` where pong is")
	retries := flags.Int("retries", 10, "further attempts to reach pong")
	timeout := flags.Float64("timeout", 10, "seconds that pong may take")
	flags.Parse(arguments[1:])
	handler := paths("pong", pong)
	if arguments[0] == "ping" {
		if *upstream == "" {
			return errors.New("ping needs --pong HOST:PORT")
		}
		relay := newRelay(*upstream, *retries, time.Duration(*timeout*float64(time.Second)))
		handler = paths("m?ping", relay.serve)
	} else if arguments[0] != "pong" {
		return errors.New("what is " + arguments[0] + "?")
	}
	server := http.Server{
		Addr:              net.JoinHostPort(strings.Trim(*bind, "[]"), strconv.Itoa(*port)),
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       75 * time.Second,
	}
	return server.ListenAndServe()
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
