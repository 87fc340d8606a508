import { MutationCache, QueryCache, QueryClient } from '@tanstack/react-query';
import { ApiError } from '../api/client.ts';
import { noteEnding, sessionQuery } from '../api/session.ts';

const RETRIES = 2;

/** The cache of the server's answers. Beside the URL it is the only state that pages share. */
export function createQueryClient(): QueryClient {
  const client = new QueryClient({
    queryCache: new QueryCache({ onError: (error) => noticeEndedSession(error) }),
    mutationCache: new MutationCache({ onError: (error) => noticeEndedSession(error) }),
    defaultOptions: {
      queries: {
        // What the server refuses it will refuse again.
        retry: (count, error) => count < RETRIES && !(error instanceof ApiError && isRefusal(error.status)),
        staleTime: 1_000,
      },
    },
  });
  /** The shell reads the session, and shows the sign-in page when it is gone. */
  function noticeEndedSession(error: Error): void {
    if (!(error instanceof ApiError) || error.status !== 401) return;
    const isFirst = client.getQueryData(sessionQuery.queryKey) !== null;
    if (isFirst) noteEnding(error);
    client.setQueryData(sessionQuery.queryKey, null);
  }
  return client;
}

function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && status !== 429;
}
