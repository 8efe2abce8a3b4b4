#!/bin/bash
set -e
wc -w < /app/poem.txt > "/app/$RESULT_FILE"
