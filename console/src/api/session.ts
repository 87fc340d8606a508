import { queryOptions } from '@tanstack/react-query';
import { ApiError, problem } from './client.ts';
import { hasSessionKey, keepSessionKey, sessionHeader } from './session-key.ts';

/** The query for the session of this browser. */
export interface Session {
  /** Name of the token. */
  readonly name: string;
  readonly role: 'viewer' | 'editor' | 'admin';
  /** ISO 8601. */
  readonly expiresAt: string;
}

const SESSION = '/api/v1/session';

/** Reason why the session is over; undefined if nobody was signed in before. */
let ending: string | undefined;

/** A sentence for whoever was signed in until now. */
export function endingOfSession(): string | undefined {
  return ending;
}

/**
 * The server has refused the session of somebody who was signed in. The cookie itself lasts no longer than
 * the session.
 */
export function noteEnding(refusal: ApiError): void {
  ending =
    refusal.code === 'session_over'
      ? refusal.message
      : 'The session is over: it lasts for 12 hours. Sign in again.';
}

/** The session of this browser; `null` when nobody is signed in. */
export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: async (): Promise<Session | null> => {
    // The cookie may be here without it, from a page on another port: nothing but this question would be
    // answered.
    if (!hasSessionKey()) return null;
    const response = await request('GET');
    try {
      return (await answered(response)) as Session;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 401) throw error;
      if (error.code === 'session_over') noteEnding(error);
      return null;
    }
  },
  staleTime: 60_000,
});

/**
 * Signs in with a token, or with the code of a sign-in link that works once. Throws an `ApiError` when it is
 * refused.
 */
export async function signIn(proof: { token: string } | { code: string }): Promise<Session> {
  const { key, ...session } = (await answered(await request('POST', proof))) as Session & {
    readonly key: string;
  };
  keepSessionKey(key);
  ending = undefined;
  return session;
}

export async function signOut(): Promise<void> {
  await request('DELETE');
  keepSessionKey(undefined);
  ending = 'You have signed out.';
}

async function request(method: string, body?: object): Promise<Response> {
  try {
    return await fetch(SESSION, {
      method,
      headers: { ...sessionHeader(), ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  } catch {
    throw new ApiError('The server does not answer. Is it running?');
  }
}

async function answered(response: Response): Promise<unknown> {
  const body: unknown = await response.json().catch(() => undefined);
  if (!response.ok) throw problem(body, response.status);
  return body;
}
