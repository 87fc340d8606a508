import * as z from 'zod';
import { ROLES } from '../../model/settings.ts';
import { isoTime } from '../../model/time.ts';
import { type Authenticator, type Caller, refuseLowerRole } from '../auth.ts';
import { type ApiOperation, CookieResult, defineOperation } from '../operation.ts';
import { Problem } from '../problem.ts';
import { type ConsoleSessions, refuseOtherOrigins } from '../sessions.ts';
import { FILTERED, outsideToken } from '../token-limits.ts';

const sessionSchema = z.object({
  name: z.string().meta({ description: 'Of the token.' }),
  role: z.enum(ROLES),
  expiresAt: z.string().exactOptional().meta({ description: 'Absent for a token without an end.' }),
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
  readonly sessions: ConsoleSessions;
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
      answer: sessionSchema.required().extend({
        key: z.string().meta({
          description:
            'What every request with the cookie has to send as `X-Millrace-Console`. Shown this once.',
        }),
      }),
      problems: ['sign_in_code_used', 'role_too_low', 'outside_token'],
      run: async ({ body, client: { request, address } }) => {
        refuseOtherOrigins(request);
        const owner = ownerOf(body, address);
        refuseLowerRole(owner, 'viewer');
        if (owner.limits !== undefined) throw outsideToken(owner.limits);
        const { name, role, digest, expiresAt = Number.POSITIVE_INFINITY } = owner;
        const before = sessions.idIn(request.headers);
        const { id, key, session } = await sessions.begin(digest);
        // The one before is over for this browser, whatever becomes of it: its cookie is replaced.
        if (before !== undefined) await sessions.end(before).catch(() => undefined);
        const value = { name, role, expiresAt: isoTime(Math.min(session.expiresAt, expiresAt)), key };
        return new CookieResult(value, sessions.cookie(id, request));
      },
    }),
    defineOperation({
      method: 'GET',
      path: 'session',
      role: 'viewer',
      isInMemory: true,
      summary: 'Shows who is signed in',
      takesCookieAlone: true,
      isWithin: FILTERED,
      answer: sessionSchema,
      run: async ({ client: { caller } }) => {
        const { name, role, session, expiresAt = Number.POSITIVE_INFINITY } = caller!;
        const found = session === undefined ? undefined : sessions.find(session);
        const end = Math.min(found?.expiresAt ?? Number.POSITIVE_INFINITY, expiresAt);
        return { name, role, ...(Number.isFinite(end) ? { expiresAt: isoTime(end) } : {}) };
      },
    }),
    defineOperation({
      method: 'DELETE',
      path: 'session',
      role: 'viewer',
      setsCookie: true,
      isWithin: FILTERED,
      summary: 'Signs out: the session of the cookie ends everywhere',
      run: async ({ client: { caller, request } }) => {
        if (caller?.session !== undefined) await sessions.end(caller.session);
        return new CookieResult(undefined, sessions.cookie(undefined, request));
      },
    }),
  ];
}
