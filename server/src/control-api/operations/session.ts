import * as z from 'zod';
import { ROLES } from '../../model/settings.ts';
import { isoTime } from '../../model/time.ts';
import { type Authenticator, type Caller, refuseLowerRole } from '../auth.ts';
import { type ApiOperation, CookieResult, defineOperation } from '../operation.ts';
import { Problem } from '../problem.ts';
import { refuseOtherOrigins, type SessionStore, sessionCookie, sessionIdIn } from '../sessions.ts';
import { FILTERED, outsideToken } from '../token-limits.ts';

const sessionSchema = z.object({
  name: z.string().meta({ description: 'Of the token.' }),
  role: z.enum(ROLES),
  expiresAt: z.string().exactOptional().meta({ description: 'Absent for a request that carries a token.' }),
});

const SECRET_RULE = 'must be one word of at most 1,000 visible ASCII characters';
const secret = z.string(SECRET_RULE).regex(/^[!-~]{1,1000}$/, SECRET_RULE);

const credentialsSchema = z
  .strictObject({ token: secret.exactOptional(), code: secret.exactOptional() })
  .refine(
    ({ token, code }) => (token === undefined) !== (code === undefined),
    'must have either token or code',
  );

export interface SessionOperationDependencies {
  readonly sessions: SessionStore;
  readonly authenticator: Pick<Authenticator, 'signIn' | 'admin'>;
}

/** spec/contract.md, "Sessions". */
export function sessionOperations({ sessions, authenticator }: SessionOperationDependencies): ApiOperation[] {
  const ownerOf = ({ token, code }: z.output<typeof credentialsSchema>, address: string): Caller => {
    if (token !== undefined) return authenticator.signIn(token, address);
    if (code !== undefined && sessions.redeemCode(code)) return authenticator.admin;
    throw new Problem('sign_in_code_used');
  };
  return [
    defineOperation({
      method: 'POST',
      path: 'session',
      role: 'viewer',
      isSignIn: true,
      setsCookie: true,
      isInMemory: true,
      status: 201,
      summary: 'Signs a browser in with a token, or with the code of a sign-in link',
      body: credentialsSchema,
      answer: sessionSchema.required(),
      problems: ['sign_in_code_used', 'role_too_low', 'outside_token'],
      run: async ({ body, client: { request, address } }) => {
        refuseOtherOrigins(request);
        const owner = ownerOf(body, address);
        refuseLowerRole(owner, 'viewer');
        if (owner.limits !== undefined) throw outsideToken(owner.limits);
        const { name, role, digest } = owner;
        const before = sessionIdIn(request.headers.cookie);
        if (before !== undefined) sessions.end(before);
        const { id, session } = sessions.begin(digest);
        const value = { name, role, expiresAt: isoTime(session.expiresAt) };
        return new CookieResult(value, sessionCookie(id, request));
      },
    }),
    defineOperation({
      method: 'GET',
      path: 'session',
      role: 'viewer',
      isInMemory: true,
      summary: 'Shows who is signed in',
      isWithin: FILTERED,
      answer: sessionSchema,
      run: async ({ client: { caller } }) => {
        const { name, role, session } = caller!;
        const found = session === undefined ? undefined : sessions.find(session);
        return { name, role, ...(found === undefined ? {} : { expiresAt: isoTime(found.expiresAt) }) };
      },
    }),
    defineOperation({
      method: 'DELETE',
      path: 'session',
      role: 'viewer',
      setsCookie: true,
      isInMemory: true,
      isWithin: FILTERED,
      summary: 'Signs out: the session of the cookie ends everywhere',
      run: async ({ client: { caller, request } }) => {
        if (caller?.session !== undefined) sessions.end(caller.session);
        return new CookieResult(undefined, sessionCookie(undefined, request));
      },
    }),
  ];
}
