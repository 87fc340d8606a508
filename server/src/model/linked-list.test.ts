import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LinkedList, type ListEntry } from './linked-list.ts';

interface Entry extends ListEntry<Entry> {
  readonly name: number;
}

function entryOf(name: number): Entry {
  return { name, list: undefined, previous: undefined, next: undefined };
}

function namesIn(list: LinkedList<Entry>): number[] {
  const names: number[] = [];
  for (let entry = list.first; entry !== undefined; entry = entry.next) names.push(entry.name);
  return names;
}

test('a list has the order of an array, whatever is added and removed', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(7)), (toggled) => {
      const list = new LinkedList<Entry>();
      const entries = Array.from({ length: 8 }, (_, name) => entryOf(name));
      const expected: number[] = [];
      for (const name of toggled) {
        const at = expected.indexOf(name);
        if (at === -1) {
          list.push(entries[name]!);
          expected.push(name);
        } else {
          list.remove(entries[name]!);
          expected.splice(at, 1);
        }
        expect(namesIn(list)).toEqual(expected);
        expect(list.first?.name).toBe(expected[0]);
      }
    }),
  );
});

test('removing an entry of another list, or of none, changes nothing', () => {
  const [list, other] = [new LinkedList<Entry>(), new LinkedList<Entry>()];
  const [mine, theirs] = [entryOf(1), entryOf(2)];
  list.push(mine);
  other.push(theirs);
  list.remove(theirs);
  list.remove(entryOf(3));
  expect([namesIn(list), namesIn(other)]).toEqual([[1], [2]]);
});
