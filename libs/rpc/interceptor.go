package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// UnaryInterceptor turns a panic into INTERNAL with a log line, and every other error into
// its status. Servers have it already; connections inside the process add it themselves.
func UnaryInterceptor(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
		defer func() { err = settle(ctx, log, info.FullMethod, recover(), err) }()
		return next(ctx, req)
	}
}

// StreamInterceptor is UnaryInterceptor for streams. An io.EOF that a handler returns is
// the end of its client's sending and no error.
func StreamInterceptor(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
		defer func() {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			err = settle(stream.Context(), log, info.FullMethod, recover(), err)
		}()
		return next(srv, stream)
	}
}

func settle(ctx context.Context, log *slog.Logger, method string, panicked any, err error) error {
	if panicked != nil {
		log.ErrorContext(ctx, "handler panicked", "method", method, "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()))
		return status.Error(codes.Internal, "the server met an unexpected condition; its log has the details")
	}
	if err == nil {
		return nil
	}
	return toStatus(err).Err()
}
