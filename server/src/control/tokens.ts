import { randomBytes } from 'node:crypto';
import * as z from 'zod';
import { ROLES } from '../model/role.ts';
import type { TokenRecord } from '../ports/settings.ts';
import { digestOf } from './bearer.ts';
import { changesOf } from './changes.ts';
import { listOf, pageByName, paging } from './lists.ts';
import { type Operation, operation } from './operation.ts';
import { Problem } from './problem.ts';
import type { RecordTools } from './records.ts';
import { shownToken } from './shown.ts';
import { ADMIN } from './sign-in.ts';

const shown = z.object({
  name: z.string(),
  role: z.enum(ROLES),
  hint: z.string(),
  createdAt: z.string(),
});

/** These stand in the audit trail for whoever is not a token; `Admin` would pass for one. */
const TAKEN: readonly string[] = [ADMIN, 'file'];

/** No dot first: `.` and `..` in a path are taken for something else on the way. */
const NAME = 'must be 1 to 100 letters, digits, dots, dashes and underscores, and not begin with a dot';
const HINT = 4;

/** contract.md section 4, `tokens`. */
export function tokenOperations({ settings, clock }: RecordTools): Operation[] {
  return [
    operation({
      ...{
        method: 'GET',
        path: 'tokens',
        role: 'admin',
        summary: 'Lists the tokens of the control API',
        isInMemory: true,
      },
      query: z.object(paging),
      answer: listOf(shown),
      run: async ({ query }) => pageByName(settings.now().tokens.map(shownToken), query),
    }),
    operation({
      ...{ method: 'POST', path: 'tokens', role: 'admin', status: 201 },
      summary: 'Makes a token; the answer is the only place where it is ever shown',
      body: z.strictObject({
        name: z
          .string(NAME)
          .regex(/^[\w-][\w.-]{0,99}$/, NAME)

          .refine(
            (name) => !TAKEN.includes(name.toLowerCase()),
            'must not be admin or file: the audit trail uses them',
          ),
        role: z.enum(ROLES, `must be one of ${ROLES.join(', ')}`),
      }),
      answer: shown.extend({ token: z.string() }),
      problems: ['name_taken'],
      run: async ({ body: { name, role }, by }) => {
        const token = `mr_${randomBytes(32).toString('base64url')}`;
        const at = clock.now();
        const record: TokenRecord = {
          ...{ name, role, digest: digestOf(token), hint: token.slice(-HINT), createdAt: at },
        };
        await settings.change((now) => {
          if (now.tokens.some((one) => one.name === name)) throw new Problem('name_taken');
          return changesOf({ tokens: [record] }, now, { by, clock });
        });
        return { ...shownToken(record), token };
      },
    }),
    operation({
      ...{ method: 'DELETE', path: 'tokens/:name', role: 'admin' },
      summary: 'Revokes a token at once',
      problems: ['unknown_name'],
      run: async ({ names, by }) => {
        const name = names['name'] ?? '';
        await settings.change((now) => {
          if (!now.tokens.some((one) => one.name === name)) throw unknownToken(name);
          return changesOf({ removed: [{ kind: 'token', name }] }, now, { by, clock });
        });
        return undefined;
      },
    }),
  ];
}

function unknownToken(name: string): Problem {
  const hint = `${JSON.stringify(name)} is no token; GET /api/v1/tokens lists them.`;
  return new Problem('unknown_name', { hint });
}
