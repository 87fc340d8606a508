import { expect, it } from 'vitest';
import { RegulationService } from './service.ts';

it('knows a user whose events stand behind pages of a long log that are empty', async () => {
  const service = new RegulationService({
    users: {
      joinedIds: async (ids: readonly string[]) => ids.map(() => ({ sources: [] })),
      visitors: async () => [],
    },
    settings: () => ({ sources: [] }),
    log: {
      find: async ({ userId }: { readonly userId: string }, below = 30) =>
        below > 10
          ? { positions: [], next: below - 10, scanned: 10 }
          : { positions: userId === 'old' ? [3] : [], scanned: 10 },
    },
  } as never);
  const request = { type: 'DELETE_ONLY', userIds: ['old', 'nobody'], anonymousIds: [] } as const;
  expect(await service.unknown(request)).toEqual(['nobody']);
});
