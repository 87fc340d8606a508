import { queryOptions } from '@tanstack/react-query';
import { ApiError, CONSOLE_HEADER, problem } from './client.ts';

/** The query for the session of this browser. */
export interface Session {
  /** Of the token. */
  readonly name: string;
  readonly role: 'viewer' | 'editor' | 'admin';
  /** ISO 8601. */
  readonly expiresAt: string;
}

const SESSION = '/api/v1/session';

/** The session of this browser; `null` when nobody is signed in. */
export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: async (): Promise<Session | null> => {
    const response = await request('GET');
    return response.status === 401 ? null : ((await answered(response)) as Session);
  },
  staleTime: 60_000,
});

/** Signs in with a token, or with the code of a sign-in link that works once. Throws an `ApiError` when it is refused. */
export async function signIn(proof: { token: string } | { code: string }): Promise<Session> {
  return (await answered(await request('POST', proof))) as Session;
}

export async function signOut(): Promise<void> {
  await request('DELETE');
}

async function request(method: string, body?: object): Promise<Response> {
  try {
    return await fetch(SESSION, {
      method,
      headers: { ...CONSOLE_HEADER, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
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
