package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// chatCmd talks to an OpenAI server. Each line is a conversation of its own.
type chatCmd struct {
	Prompt      []string `arg:"" optional:"" help:"What to say; lines from standard input if empty."`
	APIKey      string   `help:"Sent as a bearer token." name:"api-key" env:"SWITCHYARD_API_KEY"`
	URL         string   `help:"The server; found through --data if empty." placeholder:"URL"`
	Data        string   `help:"Data folder of a running serve." default:"${data}" type:"path"`
	Model       string   `help:"The model; the first that the server lists if empty."`
	System      string   `help:"System message."`
	MaxTokens   int      `help:"Most tokens of an answer; the server's default if 0."`
	Temperature *float64 `help:"0 to 2; the server's default if not given."`
	Seed        *int64   `help:"Makes an answer repeatable."`
}

// Run implements the command.
func (c *chatCmd) Run(ctx context.Context, out io.Writer) error {
	if c.URL == "" {
		e, err := readEndpoints(c.Data)
		if err != nil {
			return err
		}
		c.URL = e.URL
	}
	c.URL = strings.TrimSuffix(strings.TrimRight(c.URL, "/"), "/v1") // clients' base URLs end so
	if !strings.HasPrefix(c.URL, "http://") && !strings.HasPrefix(c.URL, "https://") {
		return fmt.Errorf("url is %q, want one like http://127.0.0.1:8000", c.URL)
	}
	if c.Model == "" {
		model, err := c.firstModel(ctx)
		if err != nil {
			return err
		}
		c.Model = model
	}
	if len(c.Prompt) > 0 {
		return c.say(ctx, strings.Join(c.Prompt, " "), out)
	}
	return c.converse(ctx, os.Stdin, out)
}

func (c *chatCmd) converse(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for {
		fmt.Fprint(out, "> ")
		if !lines.Scan() {
			fmt.Fprintln(out)
			return lines.Err()
		}
		if line := strings.TrimSpace(lines.Text()); line != "" {
			if err := c.say(ctx, line, out); err != nil {
				return err
			}
		}
	}
}

func (c *chatCmd) firstModel(ctx context.Context) (string, error) {
	var list struct {
		Data []struct{ ID string }
	}
	response, err := c.do(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		return "", fmt.Errorf("read the list of models: %w", err)
	}
	if len(list.Data) == 0 {
		return "", fmt.Errorf("%s serves no model at present", c.URL)
	}
	return list.Data[0].ID, nil
}

// do makes a request; an answer other than 200 is an error with the server's own message.
func (c *chatCmd) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("url is %q: %w", c.URL, err)
	}
	request.Header.Set("Content-Type", "application/json")
	if c.APIKey != "" {
		request.Header.Set("Authorization", "Bearer "+c.APIKey)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.StatusCode == http.StatusOK {
		return response, err
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<16)) // what is there explains more than a read error
	var failure struct{ Error struct{ Message string } }
	if json.Unmarshal(text, &failure) == nil && failure.Error.Message != "" {
		return nil, fmt.Errorf("%s: %s", response.Status, failure.Error.Message)
	}
	return nil, fmt.Errorf("%s: %s", response.Status, text)
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type chatRequest struct {
	Model       string        `json:"model"`
	Messages    []chatMessage `json:"messages"`
	Stream      bool          `json:"stream"`
	MaxTokens   int           `json:"max_tokens,omitempty"`
	Temperature *float64      `json:"temperature,omitempty"`
	Seed        *int64        `json:"seed,omitempty"`
}

// say sends one message and prints the answer as it comes.
func (c *chatCmd) say(ctx context.Context, text string, out io.Writer) error {
	r := chatRequest{Model: c.Model, Stream: true, MaxTokens: c.MaxTokens, Temperature: c.Temperature, Seed: c.Seed}
	if c.System != "" {
		r.Messages = append(r.Messages, chatMessage{"system", c.System})
	}
	r.Messages = append(r.Messages, chatMessage{"user", text})
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	response, err := c.do(ctx, http.MethodPost, "/v1/chat/completions", body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return printStream(response.Body, out)
}

// printStream prints the deltas of an event stream.
func printStream(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
			continue
		case data == "[DONE]":
			fmt.Fprintln(out)
			return nil
		}
		var event struct {
			Choices []struct{ Delta struct{ Content string } }
			Error   *struct{ Message string }
		}
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			return fmt.Errorf("read an event of the answer: %w", err)
		}
		if event.Error != nil {
			return fmt.Errorf("the answer broke off: %s", event.Error.Message)
		}
		for _, choice := range event.Choices {
			fmt.Fprint(out, choice.Delta.Content)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return fmt.Errorf("the answer broke off: %w", io.ErrUnexpectedEOF)
}
