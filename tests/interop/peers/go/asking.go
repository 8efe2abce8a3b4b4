package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	acp "github.com/coder/acp-go-sdk"
)

// request makes one request to the client from params that were built by hand.
func request[Q, R any](ctx context.Context, method func(context.Context, Q) (R, error), params object) (R, error) {
	return method(ctx, must[Q](params))
}

// ask plays the parts that need an answer from the client, and says what that was.
func (a *agent) ask(ctx context.Context, s *session, word, rest string) (string, error) {
	switch word {
	case "permission":
		return a.permission(ctx, s)
	case "read":
		read, err := request(ctx, a.client.ReadTextFile, object{"sessionId": s.id, "path": rest, "line": 2, "limit": 1})
		return read.Content, err
	case "write":
		path, content, _ := strings.Cut(rest, " ")
		_, err := request(ctx, a.client.WriteTextFile, object{"sessionId": s.id, "path": path, "content": content})
		return "written", err
	case "run":
		return a.run(ctx, s, rest)
	case "kill":
		return a.kill(ctx, s)
	case "form":
		return a.form(ctx, s)
	case "url":
		return a.url(ctx, s)
	case "ping":
		answer, err := a.client.CallExtension(ctx, "_interop/ping", object{"greeting": "hello"})
		return string(answer), err
	}
	return "", acp.NewInvalidParams(object{"received": word})
}

func (a *agent) permission(ctx context.Context, s *session) (string, error) {
	options := list{}
	for _, kind := range []string{"allow_once", "allow_always", "reject_once", "reject_always"} {
		options = append(options, object{"optionId": "id-" + kind, "name": kind, "kind": kind})
	}
	call := object{"toolCallId": "call-1", "title": "Something", "kind": "other", "status": "pending"}
	answer, err := request(ctx, a.client.RequestPermission, object{"sessionId": s.id, "toolCall": call, "options": options})
	if err != nil {
		return "", err
	}
	if answer.Outcome.Selected == nil {
		return "cancelled", nil
	}
	return string(answer.Outcome.Selected.OptionId), nil
}

func (a *agent) run(ctx context.Context, s *session, line string) (string, error) {
	words := strings.Split(line, " ")
	made, err := request(ctx, a.client.CreateTerminal, object{"sessionId": s.id, "command": words[0], "args": words[1:]})
	if err != nil {
		return "", err
	}
	here := object{"sessionId": s.id, "terminalId": made.TerminalId}
	content := list{object{"type": "terminal", "terminalId": made.TerminalId}}
	err = a.tell(s, object{"sessionUpdate": "tool_call", "toolCallId": "call-1", "title": line, "kind": "execute", "content": content})
	if err != nil {
		return "", err
	}
	ended, err := request(ctx, a.client.WaitForTerminalExit, here)
	if err != nil {
		return "", err
	}
	shown, err := request(ctx, a.client.TerminalOutput, here)
	if err != nil {
		return "", err
	}
	_, err = request(ctx, a.client.ReleaseTerminal, here)
	return fmt.Sprintf("%d: %s", *ended.ExitCode, shown.Output), err
}

func (a *agent) kill(ctx context.Context, s *session) (string, error) {
	made, err := request(ctx, a.client.CreateTerminal, object{"sessionId": s.id, "command": "sleep", "args": list{"600"}})
	if err != nil {
		return "", err
	}
	here := object{"sessionId": s.id, "terminalId": made.TerminalId}
	if _, err := request(ctx, a.client.KillTerminal, here); err != nil {
		return "", err
	}
	ended, err := request(ctx, a.client.WaitForTerminalExit, here)
	if err != nil {
		return "", err
	}
	_, err = request(ctx, a.client.ReleaseTerminal, here)
	return *ended.Signal, err
}

func (a *agent) form(ctx context.Context, s *session) (string, error) {
	schema := object{
		"type":       "object",
		"properties": object{"name": object{"type": "string"}, "count": object{"type": "integer", "minimum": 1}},
		"required":   list{"name"},
	}
	params := object{"sessionId": s.id, "mode": "form", "message": "Which one?", "requestedSchema": schema}
	answer, err := request(ctx, a.client.UnstableCreateElicitation, params)
	if err != nil {
		return "", err
	}
	given := must[object](answer)
	said, err := json.Marshal(list{given["action"], given["content"]})
	return string(said), err
}

func (a *agent) url(ctx context.Context, s *session) (string, error) {
	params := object{"sessionId": s.id, "mode": "url", "message": "Go there", "url": "https://example.com/login", "elicitationId": "visit-1"}
	answer, err := request(ctx, a.client.UnstableCreateElicitation, params)
	if err != nil {
		return "", err
	}
	err = a.client.UnstableCompleteElicitation(ctx, acp.UnstableCompleteElicitationNotification{ElicitationId: "visit-1"})
	return must[object](answer)["action"].(string), err
}
