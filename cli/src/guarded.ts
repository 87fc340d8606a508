import { visibleOnScreen } from '@millrace/server/visible-text';

/**
 * The stream, in which everything that is written is made visible: the last line of defence, and the one place that JSON and
 * messages go through. Tables and lines have put their cells through `printable` before, so that columns stand under each other.
 */
export function guarded(stream: NodeJS.WriteStream): NodeJS.WriteStream {
  const write = (text: string) => stream.write(visibleOnScreen(text));
  return new Proxy(stream, {
    get(target, key) {
      if (key === 'write') return write;
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
