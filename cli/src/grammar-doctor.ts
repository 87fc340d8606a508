import type { Command } from 'commander';
import type { DoctorOptions } from './doctor/doctor.ts';
import { addControlOptions, type Run } from './grammar-options.ts';

/** The verb that checks machine, server and endpoints. */
export function addDoctor(program: Command, run: Run): void {
  addControlOptions(
    program
      .command('doctor')
      .description('looks at this machine, the configuration, the server and the way to each endpoint')
      .option('--config <file>', 'configuration file, YAML (MILLRACE_CONFIG)'),
  )
    .addHelpText('after', '\nExample:\n  millrace doctor --config millrace.yaml')
    .action((options: DoctorOptions) =>
      run(async () => (await import('./doctor/doctor.ts')).doctor)(options),
    );
}
