import { visibleOnScreen } from '@millrace/server/visible-text';

/**
 * Makes control characters in all output visible. It is the last defence, and the only one for JSON and messages. Cells of
 * tables and lines have passed `printable` before, which keeps their columns aligned.
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
