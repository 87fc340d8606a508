import { randomBytes } from 'node:crypto';
import * as z from 'zod';
import { ROLES, type TokenRecord } from '../../model/settings.ts';
import { isoTime, type Time } from '../../model/time.ts';
import { ADMIN_NAME, tokenDigest } from '../auth.ts';
import { diffRecords } from '../changes.ts';
import { type ApiOperation, defineOperation } from '../operation.ts';
import { pageByName, pageQuery, pageSchema } from '../pagination.ts';
import { Problem } from '../problem.ts';
import type { RecordDependencies } from '../records.ts';
import { unknownName } from '../unknown-name.ts';
import { tokenView } from '../views.ts';

const tokenSchema = z.object({
  name: z.string(),
  role: z.enum(ROLES),
  hint: z.string(),
  createdAt: z.string(),
});

const usedTokenSchema = tokenSchema.extend({
  lastUsedAt: z.string().exactOptional().meta({
    description: 'When a request or a session of it was last answered by this node; absent when never.',
  }),
});

/** Names that the audit trail uses for authors without a token. They are compared in lower case. */
const RESERVED_NAMES: readonly string[] = [ADMIN_NAME, 'file'];

/** A name must not begin with a dot: proxies resolve `.` and `..` in a path. */
const NAME_RULE = 'must be 1 to 100 letters, digits, dots, dashes and underscores, and not begin with a dot';
const HINT_LENGTH = 4;

export interface TokenOperationDependencies extends Pick<RecordDependencies, 'settings' | 'clock'> {
  /** The last use of a token that was made at a time. */
  readonly lastUse: (name: string, madeAt: Time) => Time | undefined;
}

/** spec/contract.md, "Tokens". */
export function tokenOperations({ settings, clock, lastUse }: TokenOperationDependencies): ApiOperation[] {
  const usedView = (token: TokenRecord) => {
    const at = lastUse(token.name, token.createdAt);
    return { ...tokenView(token), ...(at === undefined ? {} : { lastUsedAt: isoTime(at) }) };
  };
  return [
    defineOperation({
      method: 'GET',
      path: 'tokens',
      role: 'admin',
      summary: 'Lists the tokens of the control API',
      isInMemory: true,
      query: z.object(pageQuery),
      answer: pageSchema(usedTokenSchema),
      run: async ({ query }) => pageByName(settings.now().tokens.map(usedView), query),
    }),
    defineOperation({
      method: 'POST',
      path: 'tokens',
      role: 'admin',
      status: 201,
      answersSecret: true,
      summary: 'Makes a token; the answer is the only place where it is ever shown',
      body: z.strictObject({
        name: z
          .string(NAME_RULE)
          .regex(/^[\w-][\w.-]{0,99}$/, NAME_RULE)

          .refine(
            (name) => !RESERVED_NAMES.includes(name.toLowerCase()),
            'must not be admin or file: the audit trail uses them',
          ),
        role: z.enum(ROLES, `must be one of ${ROLES.join(', ')}`),
      }),
      answer: tokenSchema.extend({ token: z.string() }),
      problems: ['name_taken'],
      run: async ({ body: { name, role }, by }) => {
        const token = `mr_${randomBytes(32).toString('base64url')}`;
        const at = clock.now();
        const record: TokenRecord = {
          name,
          role,
          digest: tokenDigest(token),
          hint: token.slice(-HINT_LENGTH),
          createdAt: at,
        };
        await settings.change((now) => {
          if (now.tokens.some((one) => one.name === name)) throw new Problem('name_taken');
          return diffRecords({ tokens: [record] }, now, { by, clock });
        });
        return { ...tokenView(record), token };
      },
    }),
    defineOperation({
      method: 'DELETE',
      path: 'tokens/:name',
      role: 'admin',
      summary: 'Revokes a token at once',
      problems: ['unknown_name'],
      run: async ({ names, by }) => {
        const name = names['name'] ?? '';
        await settings.change((now) => {
          if (!now.tokens.some((one) => one.name === name)) throw unknownName(name, 'token', now.tokens);
          return diffRecords({ removed: [{ kind: 'token', name }] }, now, { by, clock });
        });
        return undefined;
      },
    }),
  ];
}
