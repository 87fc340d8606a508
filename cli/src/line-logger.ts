import type { Logger } from '@millrace/server';
import { printable, timeOfDay } from './column.ts';
import type { Paint } from './paint.ts';

const LEVELS: readonly string[] = ['debug', 'info', 'warn', 'error'];

export interface LineLoggerOptions {
  /** The lowest level that is written. Any value but the four names turns the log off. */
  readonly level: string;
  readonly paint: Paint;
  now(): number;
  write(line: string): void;
}

/** A logger for people: a readable line instead of a line of JSON. */
export function createLineLogger(options: LineLoggerOptions): Logger {
  const least = LEVELS.indexOf(options.level);
  const at = (level: keyof Logger) => {
    if (least < 0 || LEVELS.indexOf(level) < least) return () => {};
    const label = level === 'error' ? options.paint.red(level) : options.paint.yellow(level);
    return (facts: Readonly<Record<string, unknown>>, event: string) => {
      const time = options.paint.dim(timeOfDay(options.now()));
      options.write(`${time}  ${label}  ${event}${Object.entries(facts).map(fact).join('')}\n`);
    };
  };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

function fact([name, value]: [string, unknown]): string {
  if (value === undefined) return '';
  const text =
    value instanceof Error ? value.message : typeof value === 'string' ? value : JSON.stringify(value);
  return `  ${name}=${printable(text ?? '')}`;
}
