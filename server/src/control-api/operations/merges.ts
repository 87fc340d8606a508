import * as z from 'zod';
import { isoTime } from '../../model/time.ts';
import type { Users } from '../../ports/users.ts';
import { type ApiOperation, defineOperation } from '../operation.ts';
import { pageQuery, parseNumberCursor } from '../pagination.ts';
import { mergeSchema } from './profiles.ts';

export interface MergeOperationDependencies {
  readonly users: Pick<Users, 'doubtfulMerges'>;
}

const doubtfulMergeSchema = z.object({
  userId: z.string(),
  formerUserId: z.string(),
  merge: mergeSchema.nullable().meta({ description: 'What joined them, as far as the profile remembers.' }),
});

/** spec/contract.md, "Operations on profiles". */
export function mergeOperations({ users }: MergeOperationDependencies): ApiOperation[] {
  return [
    defineOperation({
      method: 'GET',
      path: 'merges',
      role: 'admin',
      summary:
        'Lists userIds that are one profile and that stored events would not join by the rules of today, as those of earlier versions did. ' +
        'Reads all stored events for each page',
      query: z.object({ cursor: pageQuery.cursor }),
      answer: z.object({
        data: z.array(doubtfulMergeSchema),
        undecided: z.int().meta({
          description:
            'UserIds of these profiles that no stored event has as its userId, so that nobody can tell.',
        }),
        next: z.string().nullable(),
      }),
      run: async ({ query: { cursor } }) => {
        const { merges, undecided, next } = await users.doubtfulMerges(parseNumberCursor(cursor));
        return {
          data: merges.map(({ merge, ...pair }) => ({
            ...pair,
            merge: merge === undefined ? null : { ...merge, at: isoTime(merge.at) },
          })),
          ...{ undecided, next: next === undefined ? null : String(next) },
        };
      },
    }),
  ];
}
