import { openProfileStore } from '../../src/adapters/sqlite/users/profile-store.ts';
import { slice, state } from '../conformance/profile-store.ts';

/**
 * A process that is killed: writes slices into the profiles of a folder, and the position of each one that
 * was stored to its output. All states, the only identity and the only entry of a slice name its position.
 */
const [folder = ''] = process.argv.slice(2);
const store = openProfileStore({ folder, log: 'a-log' });

for (let { position } = await store.cursor(); ; ) {
  position++;
  const outbox = [{ sequence: position, profile: 1, json: '{}' }];
  await store.commit(
    slice(position, {
      put: Array.from({ length: 50 }, (_, n) => ({
        id: n + 1,
        state: state(`at ${position}`, 1 + (position % 9)),
      })),
      bind: [{ key: position, profile: 1 }],
      unbind: [position - 1],
      outbox,
      sentTo: position - 1,
    }),
  );
  process.stdout.write(`${position}\n`);
}
